"""The SliceJobs of files and flags: read as kubectl reads them, checked before they are sent, compared."""
