"""What each rung of the ladder makes of the same number of calls and judgements."""
