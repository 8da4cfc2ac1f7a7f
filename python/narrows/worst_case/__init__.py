"""The search for the values of keys with which a scenario is worst."""
