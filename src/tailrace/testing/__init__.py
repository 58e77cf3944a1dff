"""What tailrace is tested with, for its own tests and for those of the people who build on it."""
