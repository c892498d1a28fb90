// The HTTP client of Go's library, which speaks HTTP/2 over TLS: http2 URL AUTHORITIES
// js/http2.mjs speaks the same language, and more.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
)

type order struct {
	ID     int
	Order  string
	Method string
	Target string
	Body   string
}

var lock sync.Mutex

func tell(event string, fields map[string]any) {
	lock.Lock()
	defer lock.Unlock()
	fields["event"] = event
	line, err := json.Marshal(fields)
	must(err)
	fmt.Println(string(line))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func follow(client *http.Client, url string, target string) {
	response, err := client.Get(url + target)
	must(err)
	tell("open", map[string]any{"status": response.StatusCode, "version": response.ProtoMajor})
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		tell("line", map[string]any{"text": lines.Text()})
	}
	must(lines.Err())
	tell("ended", map[string]any{"target": target})
}

func main() {
	pem, err := os.ReadFile(os.Args[2])
	must(err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: trusted},
		ForceAttemptHTTP2: true,
	}}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var asked order
		must(json.Unmarshal(lines.Bytes(), &asked))
		if asked.Order == "follow" {
			go follow(client, os.Args[1], asked.Target)
			continue
		}
		body := strings.NewReader(asked.Body)
		request, err := http.NewRequest(asked.Method, os.Args[1]+asked.Target, body)
		must(err)
		response, err := client.Do(request)
		must(err)
		told, err := io.ReadAll(response.Body)
		must(err)
		tell("done", map[string]any{
			"id": asked.ID, "status": response.StatusCode, "body": string(told), "version": response.ProtoMajor,
		})
	}
}
