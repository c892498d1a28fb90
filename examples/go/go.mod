module throng.example/backend

go 1.19
