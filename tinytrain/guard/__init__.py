"""Keep an adaptation, or go back."""
