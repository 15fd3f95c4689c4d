"""What a run leaves: the model as a file, predictions from it, and how good they are.

Loads no code of agents: who gets a model needs neither data nor objectives.
"""
