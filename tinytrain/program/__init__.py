"""Calls, automatic differentiation, memory planner, compiler: from a recipe to a Program."""
