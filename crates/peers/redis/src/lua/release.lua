-- A node subscribes to a channel no more. If no other does, and nothing was published there, its
-- stream is forgotten in a moment: names that nobody publishes in leave nothing.
local meta, channel = KEYS[1], KEYS[2]
local now, keep, empty = clock(tonumber(ARGV[1])), tonumber(ARGV[2]), tonumber(ARGV[3])
if redis.call('PUBSUB', numsub, channel)[2] > 0 then
  return 0
end
local m = redis.call('HMGET', meta, 's', 'v')
if m[1] == '0' and not m[2] then
  redis.call('HSET', meta, 't', int(now - keep + empty))
  redis.call('PEXPIRE', meta, int(empty))
end
return 0
