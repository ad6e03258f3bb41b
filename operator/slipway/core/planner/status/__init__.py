"""What is written of a job: phase, conditions, Events, progress and ledger."""
