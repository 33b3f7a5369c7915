"""Budget, recipe, scores and costs, as values."""
