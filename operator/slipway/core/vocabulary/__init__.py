"""The words of a status: every reason, every ending of an attempt and every cause, and what follows from each."""
