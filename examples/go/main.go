// A back end for Throng with Go's standard library: it issues tokens, and publishes on a change.
package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

var (
	secret   = setting("THRONG_SECRET", "an-example-secret-that-everyone-knows")
	key      = setting("THRONG_KEY", "an-example-key-that-everyone-knows")
	api      = setting("THRONG_API", "http://127.0.0.1:8001")
	clients  = setting("THRONG_CLIENTS", "127.0.0.1:8000")
	examples = setting("EXAMPLES", "..")
	chat     = setting("CHAT", examples+"/chat/dist")

	staff  = map[string]bool{"ann": true, "carol": true}
	mutex  sync.Mutex
	scores = map[string]int{"reds": 0, "blues": 0}
	client = http.Client{Timeout: 5 * time.Second}
)

// sign makes a JWT with HS256.
func sign(claims map[string]any) (string, error) {
	body, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode(body)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(signed))
	return signed + "." + encode(mac.Sum(nil)), nil
}

func id() string {
	var bytes [16]byte
	rand.Read(bytes[:])
	return hex.EncodeToString(bytes[:])
}

func publish(channel string, data any) error {
	// The key makes a repeated request harmless.
	body, err := json.Marshal(map[string]any{"channel": channel, "data": data, "idempotency_key": id()})
	if err != nil {
		return err
	}
	request, err := http.NewRequest("POST", api+"/api/publish", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-API-Key", key)
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var said struct {
		Error *struct{ Message string }
	}
	if err := json.NewDecoder(answer.Body).Decode(&said); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK || said.Error != nil {
		return fmt.Errorf("publish: %s %+v", answer.Status, said.Error)
	}
	return nil
}

// token issues a connection token, or a subscription token for a channel.
// A real back end reads the user from its own session.
func token(w http.ResponseWriter, r *http.Request) {
	user, channel := r.URL.Query().Get("user"), r.URL.Query().Get("channel")
	if user == "" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.URL.Query().Has("channel") && (channel != "$team:staff" || !staff[user]) {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	claims := map[string]any{"sub": user, "exp": time.Now().Add(10 * time.Minute).Unix()}
	if channel != "" {
		claims["channel"] = channel
	}
	signed, err := sign(claims)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprint(w, signed)
}

func messages(w http.ResponseWriter, r *http.Request) {
	var message struct{ Channel, User, Text string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 16<<10)).Decode(&message); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	isStaff := message.Channel == "$team:staff" && staff[message.User]
	if message.Channel != "room:general" && !isStaff {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if strings.TrimSpace(message.Text) == "" || len(message.Text) > 500 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	data := map[string]string{"id": id(), "user": message.User, "text": message.Text}
	if err := publish(message.Channel, data); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func board(w http.ResponseWriter, r *http.Request) {
	mutex.Lock()
	defer mutex.Unlock()
	if r.Method == http.MethodPost {
		var change struct {
			Team   string
			Points int
		}
		body := http.MaxBytesReader(w, r.Body, 16<<10)
		if err := json.NewDecoder(body).Decode(&change); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if _, known := scores[change.Team]; !known {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		scores[change.Team] += change.Points
		if err := publish("board:scores", scores); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
	}
	answer(w, scores)
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(value)
}

// only lets requests of one method pass.
func only(method string, handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method {
			w.Header().Set("Allow", method)
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		handler(w, r)
	}
}

func main() {
	http.HandleFunc("/token", only("GET", token))
	http.HandleFunc("/messages", only("POST", messages))
	http.HandleFunc("/scores", board)
	http.HandleFunc("/settings", only("GET", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]string{"clients": clients})
	}))
	http.Handle("/chat/", http.StripPrefix("/chat/", http.FileServer(http.Dir(chat))))
	http.Handle("/board/", http.StripPrefix("/board/", http.FileServer(http.Dir(examples+"/board"))))
	listener, err := net.Listen("tcp", "127.0.0.1:"+setting("PORT", "3000"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s/\n", listener.Addr())
	log.Fatal(http.Serve(listener, nil))
}
