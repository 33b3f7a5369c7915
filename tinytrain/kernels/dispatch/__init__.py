"""The shortest way from a bound call to machine code."""
