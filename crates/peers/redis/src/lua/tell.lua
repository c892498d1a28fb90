-- The coming of a user is told, unless that of another of its connections was.
local told, channel, user, message = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
if redis.call('HSETNX', told, user, 1) == 1 then
  redis.call(publish, channel, message)
end
return 0
