-- Removes the rows of a node that has died from one channel, and tells of it.
local members, users, channel, incarnation = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
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
