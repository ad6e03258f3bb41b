"""Why a job does not run, in words for people, and the smallest change that helps."""
