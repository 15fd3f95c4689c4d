"""Brings agents together, holds the rounds, counts the bytes. Never sees a cost function, a state or noise."""
