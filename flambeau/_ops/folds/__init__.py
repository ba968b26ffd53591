"""Operations along dimensions: reductions, running folds, orderings, counts."""
