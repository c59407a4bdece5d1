"""Recurrent parts: LSTM and GRU cells, encoders, attention decoders."""
