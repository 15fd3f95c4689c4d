"""Theorems, plans before a run, and audits of the privacy claims."""
