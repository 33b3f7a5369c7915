"""What ``tinytrain doctor`` looks at."""
