"""Gathers agents, grants rounds, counts bytes. Never sees a cost function, a state or noise."""
