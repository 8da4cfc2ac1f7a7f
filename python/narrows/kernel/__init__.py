"""Linux as a user-space process in virtual time: its source, its build, its runs."""
