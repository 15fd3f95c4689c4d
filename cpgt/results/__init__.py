"""What a run leaves behind: summary, traffic, tables, figures."""
