"""Run a Program: trainer, Fisher information, prediction."""
