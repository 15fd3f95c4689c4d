"""What can be said without running: theorems, plans, audits."""
