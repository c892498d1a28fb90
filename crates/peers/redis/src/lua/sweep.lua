-- Removes the rows of a node that has died from one channel, and tells of it. Redis refuses the
-- first write or none: so a channel is forgotten only with its rows.
local members, users, channel, places = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local incarnation, name = ARGV[1], ARGV[2]
redis.call('SREM', places, name)
local all = redis.call('HGETALL', members)
local gone = 0
for n = 1, #all, 2 do
  local row = all[n + 1]
  if string.sub(row, 1, 16) == incarnation then
    local length = tonumber(string.sub(row, 18, 25))
    local user = string.sub(row, 26, 25 + length)
    redis.call('HDEL', members, all[n])
    if redis.call('HINCRBY', users, user, -1) <= 0 then
      redis.call('HDEL', users, user)
    end
    gone = gone + 1
    if string.sub(row, 17, 17) == '1' then
      redis.call(publish, channel, 'l   0 ' .. string.sub(row, 26 + length))
    end
  end
end
return gone
