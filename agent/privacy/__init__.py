"""Privacy of one agent: noise, randomness, secret, account of epsilon, budget, log."""
