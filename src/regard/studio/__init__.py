"""Studio: the web page people look through. A server that opens runs, and static files that need no build step.

desk      what the page needs of an opened run; `tasks.desks` makes one of whatever a run answers
gallery   images to lay before a model, the run's own and what people hand in
looks     an input laid before a model, passed once, kept as references
arithmetic, terms   one weight, number by number
matrices  weights rebuilt from those: rows, tiles, overviews, thumbnails
guard     who may ask, and what the browser may do
door, address   the key of a public address, and the names it may be called by
server, connections   uvicorn with a bound on connections and on their time
metrics   a training's numbers as curves, whatever is in their file
work      the bounded queue in which all computing waits
routes*   the questions the page asks
app       all of it together
"""
