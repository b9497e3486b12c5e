"""Which trajectory an untagged call goes on with: the conversation itself tells (DESIGN §3, rule 4)."""
