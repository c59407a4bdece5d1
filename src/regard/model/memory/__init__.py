"""Memory of earlier segments of a text, as Transformer-XL has it (Dai et al. 2019), for every decoder with relative positions.

settings    the keys of a recipe, and what they do not go with
segments    a text read segment by segment, and the pattern that says the same of a text read at once
adaptive    embedding and output in clusters of words, frequent words wider (Baevski & Auli 2019; Grave et al. 2017)
"""
