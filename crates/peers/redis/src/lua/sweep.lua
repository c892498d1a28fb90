-- Removes the rows of a node that has died from one channel, and tells of it. Redis refuses the
-- first write or none: so a channel is forgotten only with its rows.
local members, users, told, channel, places = unpack(KEYS)
local incarnation, name = ARGV[1], ARGV[2]
redis.call('SREM', places, name)
local all = redis.call('HGETALL', members)
local gone = 0
for n = 1, #all, 2 do
  local row = all[n + 1]
  if string.sub(row, 1, 16) == incarnation then
    local length = tonumber(string.sub(row, 18, 25))
    local user = string.sub(row, 26, 25 + length)
    local announced, is_last_of_user = string.sub(row, 17, 17), false
    redis.call('HDEL', members, all[n])
    if redis.call('HINCRBY', users, user, -1) <= 0 then
      redis.call('HDEL', users, user)
      is_last_of_user = redis.call('HDEL', told, user) == 1
    end
    gone = gone + 1
    if announced == '1' or announced == '2' and is_last_of_user then
      redis.call(publish, channel, 'l   0 ' .. string.sub(row, 26 + length))
    end
  end
end
return gone
