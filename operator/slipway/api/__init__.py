"""The words of the resource: what may be asked and what is answered. Imports nothing of Slipway."""
