"""Bundles for the review of artefacts: scenarios, commands, their results, and their repetition."""
