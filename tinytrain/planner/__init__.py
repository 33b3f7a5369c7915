"""From scores and a budget to a plan that fits."""
