"""What three hidden neurons can represent: the best of many restarts with a good optimizer."""
