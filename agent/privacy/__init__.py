"""Privacy of one agent: noise, its randomness and secret, the account of epsilon, the budget, the log."""
