-- Somebody is present from now on. A row is the node's incarnation (16), what is announced (1: its
-- own news, 2: its user's first and last), the length of the user's name (8), that name, and the rest.
local members, users, told, places, channel, lease = unpack(KEYS)
local client, row, again, name = ARGV[1], ARGV[2], ARGV[3] == '1', ARGV[4]
local function user(r)
  return string.sub(r, 26, 25 + tonumber(string.sub(r, 18, 25)))
end
-- Said on a connection that was given up: its node has come again since, by another name.
if redis.call('EXISTS', lease) == 0 then
  return 0
end
local before = redis.call('HGET', members, client)
if before then
  if redis.call('HINCRBY', users, user(before), -1) <= 0 then
    redis.call('HDEL', users, user(before))
  end
end
redis.call('HSET', members, client, row)
-- Nodes of older versions leave what was told of the user before.
if redis.call('HINCRBY', users, user(row), 1) == 1 and not before then
  redis.call('HDEL', told, user(row))
end
redis.call('SADD', places, name)
local announced = string.sub(row, 17, 17)
if again and not before and (announced == '1' or announced == '2' and redis.call('HSETNX', told, user(row), 1) == 1) then
  redis.call(publish, channel, 'j   0 ' .. string.sub(row, 26 + #user(row)))
end
return 0
