"""What carries a vector from word to word: cells, the models that look back while they write, and what a search keeps of them."""
