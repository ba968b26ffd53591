"""What an operation's record is and how it is called: declarations, rules for dtypes, shapes, batches and tangents, and the forms derived from it."""
