"""Random turns on random channels with random trouble, and the judges that check what was shown."""
