module throng.example/e2e

go 1.19

require github.com/pusher/pusher-http-go/v5 v5.1.1

require golang.org/x/crypto v0.0.0-20200709230013-948cd5f35899 // indirect
