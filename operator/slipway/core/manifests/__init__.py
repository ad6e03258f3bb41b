"""The objects that Slipway makes of a job, as JSON: pods, host lists, Services and what Ray needs."""
