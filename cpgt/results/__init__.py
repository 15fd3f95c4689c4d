"""The results of runs: the summary and its printed form, traffic, tables, figures."""
