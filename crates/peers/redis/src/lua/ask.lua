-- Sends a question to all nodes, and says how many hear it. Who listens by pattern is no node.
local everybody = KEYS[1]
local heard = redis.call('PUBSUB', numsub, everybody)[2]
redis.call(publish, everybody, ARGV[1])
return heard
