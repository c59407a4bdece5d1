"""GGUF, the file format of llama.cpp: settings, tokenizer and tensors in one file, read without its library.

`container.py` reads the file and its numbers in blocks, `models.py` makes a LLaMA or a GPT-2 of it, and
`tokenizer.py` its vocabulary.
"""
