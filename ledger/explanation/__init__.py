"""Why a trajectory was, or was not, trained: `facts` reads it, `words` has a sentence for each word, `story` tells it."""
