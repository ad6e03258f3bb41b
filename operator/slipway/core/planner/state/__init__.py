"""A decision in the making: the pods sorted, and the draft of status and actions."""
