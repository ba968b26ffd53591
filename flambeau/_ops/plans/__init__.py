"""Plans: what a call does, found when its like comes a second time, and run without asking again."""
