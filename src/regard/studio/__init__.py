"""Studio: a web page for runs. A server that opens them, and static files that need no build step.

session, run_session   opened runs as the page needs them; `launch` opens them
passes       one pass of a model over an input, cached as references from which weights are rebuilt
arithmetic   one weight, number by number
gallery, vocabulary   images and word vectors of a run
security, server      access control, and uvicorn with bounds on connections and on their time
worker       the bounded queue in which all computing waits
routes       the questions the page asks, and the answers
app          all of it together
static       the page; `lens/result.py` writes its screens as one-file pages
"""
