"""The search for the values of scenario keys that cause the largest problem."""
