"""Learning without groups: a product asks each prompt once, and some of its users say thumb up or thumb down."""
